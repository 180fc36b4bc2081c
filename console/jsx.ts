/** What the bundle makes of JSX: calls of `h` are shorter than those of the automatic form. */
export { Fragment, h } from "preact"
