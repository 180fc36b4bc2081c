/** Starts the console in its page. */
import { render } from "preact"
import { App } from "./App.tsx"
import { followChanges } from "./data/live.ts"
import { readSession } from "./data/session.ts"

readSession()
followChanges()
render(<App />, document.getElementById("console")!)
