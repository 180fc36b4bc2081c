/**
 * The advice of tools that submit requests, where it differs from that of reads. `docs/agents.md` shows the table.
 */
import { adviceOnRefusal, inWords, type Sentences } from "./Advice.ts"
import type { ReadRefused } from "./AgentReads.ts"

type RefusalCode = ReadRefused["code"]

/** Why a request was not accepted although the grant permits it. */
export type Unconfirmed = "confirmation_declined" | "confirmation_missing" | "confirmation_mismatch"

const onConfirmation: Readonly<Record<Unconfirmed, Sentences>> = {
  confirmation_declined: {
    means: "The person did not confirm the request. This call recorded nothing.",
    mustNot: "Do not call the tool for it again on your own.",
    next: "Tell your user. If the user still wants it, call the tool with the same key."
  },
  confirmation_missing: {
    means: "The person was not asked, or no answer arrived. This call recorded nothing.",
    mustNot: "Do not use a new key.",
    next:
      "Call the tool once more with the same key. If this happens again, tell your user that the client must be able to ask "
      + "for a confirmation (elicitation)."
  },
  confirmation_mismatch: {
    means: "The confirmation belongs to another request. This call recorded nothing.",
    mustNot: "Never make up a confirmation.",
    next: "Call the tool with the same key and without the confirmation, so that the person is asked."
  }
}

const onAcceptance: Readonly<Partial<Record<RefusalCode, Sentences>>> = {
  insufficient_scope: {
    means: "The grant lacks a scope that the tool needs. This call recorded nothing.",
    mustNot: "Do not use a new key.",
    next: "Ask your user for a grant with the scope that problem.detail names."
  },
  invalid_request: {
    means: "The arguments do not fit. This call recorded nothing.",
    mustNot: "Do not guess names or numbers of accounts.",
    next: "Correct the arguments, and call the tool with the same key."
  },
  service_unavailable: {
    means: "Whether the gateway recorded the request is not known.",
    mustNot: "Do not use a new key: both requests could be carried out.",
    next: "Call the tool in 30 s with the same key and the same arguments."
  }
}

/** The advice on a request that no person confirmed. */
export const adviceOnUnconfirmed = (reason: Unconfirmed): string => inWords(onConfirmation[reason])

/** What happened, for the problem of a request that no person confirmed. */
export const meaningOfUnconfirmed = (reason: Unconfirmed): string => onConfirmation[reason].means

/** The advice on a request that the gateway refused. Codes without a sentence here have the advice of reads. */
export const adviceOnRefusedMutation = (code: RefusalCode): string => {
  const sentences = onAcceptance[code]
  return sentences === undefined ? adviceOnRefusal(code) : inWords(sentences)
}

/** All sentences, for the documentation. */
export const mutationSentences = { ...onConfirmation, ...onAcceptance }
