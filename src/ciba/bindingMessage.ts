/**
 * The binding message of CIBA (§7.1): what a person reads on the own device.
 */
import type { Terms } from "../domain/Terms.ts"

/** Characters that common providers accept in the message; in a payee each other one becomes `?`. */
const unfit = /[^A-Za-z0-9\-._+/!#]/gu

/**
 * Makes binding messages of at most `length` characters from the terms of an operation, such as `70.00EUR/..4000`. Amount and currency
 * stand complete, and the payee if it fits; else its last characters. Null: not even the amount fits, so the person cannot be asked.
 */
export const bindingMessageOf = (length: number) => ({ amount, currency, payee }: Terms): string | null => {
  const money = `${amount}${currency}/`
  const shown = payee.replaceAll(unfit, "?")
  const room = length - money.length
  if (shown.length <= room) return money + shown
  return room < shortestEnd + 2 ? null : `${money}..${shown.slice(2 - room)}`
}

/** Fewest last characters of a payee that tell it from others. */
const shortestEnd = 4
