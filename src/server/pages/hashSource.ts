import * as Effect from "effect/Effect"

/** The hash by which a content security policy allows an inline script or style of this text (CSP level 3 §2.3.1). */
export const hashSource = (text: string): Effect.Effect<string> =>
  Effect.map(
    Effect.promise(() => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))),
    (digest) => `'sha256-${btoa(String.fromCharCode(...new Uint8Array(digest)))}'`
  )
