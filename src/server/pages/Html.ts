/** Markup in which every text from outside is escaped. */
import * as Effect from "effect/Effect"

/** Markup that is inserted as it is. `html` makes it of text from outside. */
export class Html {
  readonly markup: string
  constructor(markup: string) {
    this.markup = markup
  }
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "\"": "&quot;",
  "'": "&#39;"
}

/** Control characters and lone surrogates are no text of a document (HTML §13.2.3.5). */
const escape = (text: string): string =>
  text.toWellFormed().replaceAll(/(?![\t\n])\p{Cc}/gu, "\ufffd").replaceAll(/[&<>"']/g, (found) => entities[found]!)

const render = (value: Html | string | number): string => value instanceof Html ? value.markup : escape(String(value))

/** Makes markup of a template. It escapes each value that is not markup. Attributes need quotes around their values. */
export const html = (parts: TemplateStringsArray, ...values: ReadonlyArray<Html | string | number>): Html =>
  new Html(parts.map((part, at) => at === 0 ? part : render(values[at - 1]!) + part).join(""))

/** Markup, one after the other. */
export const joined = (parts: ReadonlyArray<Html>): Html => new Html(parts.map(({ markup }) => markup).join(""))

/** Text in which backticks enclose code, as in the problem catalogue. */
export const prose = (text: string): Html =>
  joined(text.split("`").map((part, at) => at % 2 === 1 ? html`<code>${part}</code>` : html`${part}`))

/** The hash by which a content security policy allows an inline script or style of this text (CSP level 3 §2.3.1). */
export const hashSource = (text: string): Effect.Effect<string> =>
  Effect.map(
    Effect.promise(() => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))),
    (digest) => `'sha256-${btoa(String.fromCharCode(...new Uint8Array(digest)))}'`
  )
