import * as Context from "effect/Context"

/** The version that the workers of this process report. */
export const ProgramVersion = Context.Reference<string>("financial-agents-gateway/services/queue/ProgramVersion", {
  defaultValue: () => "unknown"
})
