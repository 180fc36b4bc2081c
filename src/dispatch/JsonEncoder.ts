/**
 * From values to JSON text, compiled from a schema.
 *
 * The interpreter of schemas makes an encoded copy of each value, and an `Exit` for each part of it; `JSON.stringify` then walks the
 * copy. The compiled encoder writes the text in one pass. `JsonSource` generates its code.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import { generateEncoder, NotCompiled, type Write } from "./JsonSource.ts"

/** Null: the interpreter encodes the schema. */
const compileOrNull = (ast: SchemaAST.AST): Write | null => {
  try {
    return generateEncoder(ast)
  } catch (error) {
    // `EvalError`: the process runs with `--disallow-code-generation-from-strings`.
    if (error instanceof NotCompiled || error instanceof EvalError) return null
    throw error
  }
}

const writeOrNull = (write: Write, value: unknown): string | null => {
  try {
    return write(value)
  } catch {
    return null
  }
}

/** Encodes values of one schema as JSON. */
export interface JsonEncoder {
  /** The JSON of a value. Null: the schema may refuse the value, so `encode` decides. */
  readonly write: (value: unknown) => string | null
  /** The JSON of a value. Fails as the schema does. */
  readonly encode: (value: unknown) => Effect.Effect<string, Schema.SchemaError>
}

/**
 * Makes the encoder of a schema: its text is what `JSON.stringify` writes of what the schema encodes. What `JsonSource` does not
 * compile, such as records and declared classes, is encoded by the interpreter.
 */
export const makeJsonEncoder = (schema: Schema.ConstraintEncoder<unknown>): JsonEncoder => {
  const compiled = compileOrNull(SchemaAST.flip(schema.ast))
  const encodeUnknown = Schema.encodeUnknownEffect(schema)
  const interpret = (value: unknown) => Effect.map(encodeUnknown(value), (encoded) => JSON.stringify(encoded))
  if (compiled === null) return { write: () => null, encode: interpret }
  // The text of `undefined` is empty, which is no JSON.
  const write = (value: unknown) => writeOrNull(compiled, value) || null
  return {
    write,
    encode: (value) => {
      const text = write(value)
      return text === null ? interpret(value) : Effect.succeed(text)
    }
  }
}
