import * as Schema from "effect/Schema"

/** A setting of the process is missing or invalid. The message is one sentence, and repeats no value. */
export class InvalidSetting extends Schema.TaggedError<InvalidSetting>()("InvalidSetting", {
  message: Schema.String
}) {}
