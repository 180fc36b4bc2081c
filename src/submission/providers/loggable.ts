/** UTF-16 code units of a name in a log. */
const longest = 64

/** Removes line breaks and terminal sequences and cuts long text, because providers choose references, ids and codes. */
export const loggable = (name: unknown): string =>
  typeof name === "string" ? name.slice(0, longest).replace(/[^\x20-\x7e]/g, "?") : `(${typeof name})`
