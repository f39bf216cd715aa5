"use strict";
// Browsers open six connections to a server: the first streams come as MJPEG, the others as a picture each second.
const MOVING = 4;
const cards = [];
let reached = 0; // when the program answered last, in milliseconds; 0 if it does not answer now

function element(kind, className, parent) {
  const made = document.createElement(kind);
  made.className = className;
  parent.append(made);
  return made;
}

function makeCard(number) {
  const card = { root: element("article", "", document.getElementById("streams")), figures: {} };
  const picture = element("div", "picture", card.root);
  card.image = element("img", "", picture);
  card.since = element("span", "since", picture);
  if (number < MOVING) card.image.src = `/streams/${number}.mjpg`;
  const title = element("div", "title", card.root);
  card.name = element("span", "name", title);
  card.state = element("span", "state", title);
  card.status = element("p", "status", card.root);
  const list = element("dl", "", card.root);
  for (const name of ["frames/s", "latency", "95%", "dropped", "damaged", "reconnects"]) {
    const row = element("div", "", list);
    element("dt", "", row).textContent = name;
    card.figures[name] = element("dd", "", row);
  }
  return card;
}

function dim(card, word, milliseconds) {
  card.root.classList.add("lost");
  card.since.textContent = `${word} ${new Date(milliseconds).toLocaleTimeString("en-GB")}`;
}

function show(card, stream, number) {
  const milliseconds = (value) => (value === null ? "-" : `${value.toFixed(value < 100 ? 1 : 0)} ms`);
  card.name.textContent = stream.name;
  card.image.alt = stream.name;
  card.state.textContent = stream.state;
  card.state.className = `state ${stream.state}${stream.is_recorded ? " recorded" : ""}`;
  if (stream.since === null) card.root.classList.remove("lost");
  else dim(card, stream.state === "ended" ? "ended at" : "lost since", 1000 * stream.since);
  card.status.textContent = stream.status;
  const values = {
    "frames/s": stream.fps.toFixed(1), latency: milliseconds(stream.latency_median), "95%": milliseconds(stream.latency_p95),
    dropped: stream.dropped, damaged: stream.damaged, reconnects: stream.reconnects,
  };
  for (const [name, value] of Object.entries(values)) card.figures[name].textContent = value;
  if (number >= MOVING && stream.state !== "opening") card.image.src = `/streams/${number}.jpg?${Date.now()}`;
}

async function poll() {
  const summary = document.getElementById("summary");
  try {
    const streams = await (await fetch("/figures.json")).json();
    if (!reached) cards.slice(0, MOVING).forEach((card, number) => (card.image.src = `/streams/${number}.mjpg?${Date.now()}`));
    reached = Date.now();
    while (cards.length < streams.length) cards.push(makeCard(cards.length));
    streams.forEach((stream, number) => show(cards[number], stream, number));
    const live = streams.filter((stream) => stream.state === "live").length;
    const rate = streams.reduce((sum, stream) => sum + stream.fps, 0);
    summary.textContent = `${live} of ${streams.length} streams are live, ${rate.toFixed(1)} frames/s`;
  } catch {
    summary.textContent = "the program has ended, or cannot be reached";
    if (reached) cards.forEach((card) => dim(card, "lost since", reached));
    reached = 0;
  }
  setTimeout(poll, 1000);
}
poll();
