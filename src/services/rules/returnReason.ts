/**
 * The reason of a returned claim, as both submission queues store it: well-formed text without NUL, of 1 to 1,024 characters.
 */
export const returnReason = (reason: string): string =>
  reason === "" ? "no reason given" : reason.slice(0, 1024).toWellFormed().replaceAll("\0", "\uFFFD")
