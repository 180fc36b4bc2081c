/**
 * Arguments as a shell reads them.
 */

/** Quotes an argument of a command line for a POSIX shell, if it needs quotes. */
export const shellWord = (text: string): string =>
  /^[\w.,:@%+=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
