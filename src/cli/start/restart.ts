/**
 * Restarts the program with its settings. `src/main.ts` imports this module before the commands, because all that is evaluated
 * before is evaluated twice. The sources run as they are started.
 */
import { restart } from "./StartSettings.ts"

if (!import.meta.url.endsWith(".ts")) restart()
