import { useState } from "preact/hooks"
import type { Summary, TermsAnswer } from "../../src/operator/console/ConsoleApi.ts"
import { announce } from "../data/announcements.ts"
import { showTerms } from "../data/session.ts"
import { createStore, useStore } from "../data/store.ts"

type Terms = NonNullable<Summary["terms"]>

/** Amount and payee, masked or as they are. */
export const TermsText = ({ terms: { amount, currency, payee } }: { readonly terms: Terms }) => (
  <span class="terms">
    <strong>{currency} {amount}</strong> to {payee}
  </span>
)

/** The terms that this page was shown, until it is loaded again. */
const shownTerms = createStore<TermsAnswer>({ terms: {}, digests: {} })

/** Keeps terms that the server showed. */
export const keepTerms = ({ digests, terms }: TermsAnswer): void => {
  const before = shownTerms.get()
  shownTerms.set({ terms: { ...before.terms, ...terms }, digests: { ...before.digests, ...digests } })
}

/** The terms of operations, and the button that shows all of them. The server records once who saw which. */
export const useTerms = (operations: ReadonlyArray<Summary>) => {
  const shown = useStore(shownTerms)
  const [failure, setFailure] = useState<string | null>(null)
  const masked = operations.filter(({ operation, terms }) => terms !== null && !(operation.id in shown.terms))
  const show = async () => {
    try {
      keepTerms(await showTerms(masked.map(({ operation }) => operation.id)))
      setFailure(null)
      announce("Amounts and payees are shown.")
    } catch (error) {
      setFailure((error as Error).message)
    }
  }
  return {
    termsOf: ({ operation, terms }: Summary): Terms | null => shown.terms[operation.id] ?? terms,
    /** What an approval repeats. Undefined: the terms were not shown, or the server cannot read them. */
    digestOf: ({ operation }: Summary): string | undefined => shown.digests[operation.id],
    button: masked.length === 0 ? null : (
      <p class="show-terms">
        {failure !== null && <span role="alert">{failure}</span>}
        <button type="button" title="It is recorded who saw them" onClick={() => void show()}>
          {operations.length === 1 ? "Show amount and payee" : "Show amounts and payees"}
        </button>
      </p>
    )
  }
}
