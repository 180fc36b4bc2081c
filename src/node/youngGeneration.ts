/** How V8 treats the young generation, where the objects of requests begin and end. */
import * as v8 from "node:v8"

/**
 * Turns off allocation-site pretenuring for the process. Call it when the process starts.
 *
 * V8 counts how many objects of a place in the code survive. If nearly all do in one burst, it allocates the objects of that
 * place in the old generation from then on. Requests that wait for the database are such a burst, but their objects soon die.
 * Dead objects of the old generation keep all that they refer to until a major collection. Each closed request scope then
 * kept its response: 30 KB for a list.
 */
export const allocateYoung = (): void => v8.setFlagsFromString("--no-allocation-site-pretenuring")

/**
 * Lets the young generation grow, as is the default. A program may have stopped that while it starts. A server calls it when it
 * listens: with a small young generation, its first requests cost three to four times as many collections.
 */
export const growYoung = (): void => v8.setFlagsFromString("--semi-space-growth-factor=2")
