"""From a kernel source to the text of an API: access macros, preludes, dialects, one dispatch for all steps."""
