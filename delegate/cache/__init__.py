"""What is kept between processes, and how long an initialization takes."""
