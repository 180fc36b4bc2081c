/**
 * What `oauth4webapi` accepts and the gateway does not, by the kind of the mutation, and why that is right. The tests hold
 * it to each of them; `docs/fapi.md` repeats them.
 */
export const tokenDifferences: Readonly<Record<string, string>> = {
  "issued in the future": "What was issued tomorrow was not issued by a clock that is right.",
  "of a subject whose name does not fit":
    "More than 255 characters, or others than visible ASCII, could not be stored.",
  "of a client whose name does not fit": "The same.",
  "of no grant": "The claim is the gateway's own. Without a grant there is nothing to read under.",
  "with malformed scopes": "RFC 6749 §3.3 has their form; `oauth4webapi` leaves them to the application.",
  "bound to nothing": "A confirmation that names nothing confirms nobody (RFC 7800 §3.1).",
  "the signature ends in bits that say nothing": "One token has one text, by whose hash it is known (RFC 4648 §3.5).",
  "the signature is encoded otherwise": "JWS has base64url without padding (RFC 7515 §2).",
  "with white space within": "The same.",
  "with white space around it": "None over HTTP, which removes it before either of them sees it."
}

export const proofDifferences: Readonly<Record<string, string>> = {
  "proof: made minutes ago":
    "The gateway takes a minute and five seconds, `oauth4webapi` five minutes (RFC 9449 §11.1 leaves it open).",
  "proof: made in the near future": "The gateway takes five seconds, `oauth4webapi` five minutes.",
  "proof: with an identifier of no length, or of too much": "The gateway has to remember it: 1 to 256 characters.",
  "proof: too long": "The gateway reads 8 KiB.",
  "proof: the signature ends in bits that say nothing": "As with tokens.",
  "proof: the signature is encoded otherwise": "As with tokens.",
  "proof: with white space within": "As with tokens.",
  "proof: with white space around it": "As with tokens."
}
