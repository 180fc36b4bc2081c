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
const shownTerms = createStore<TermsAnswer["terms"]>({})

/** The terms of operations, and the button that shows all of them. The server records once who saw which. */
export const useTerms = (operations: ReadonlyArray<Summary>) => {
  const shown = useStore(shownTerms)
  const [failure, setFailure] = useState<string | null>(null)
  const masked = operations.filter(({ operation, terms }) => terms !== null && !(operation.id in shown))
  const show = async () => {
    try {
      const { terms } = await showTerms(masked.map(({ operation }) => operation.id))
      shownTerms.set({ ...shownTerms.get(), ...terms })
      setFailure(null)
      announce("Amounts and payees are shown.")
    } catch (error) {
      setFailure((error as Error).message)
    }
  }
  return {
    termsOf: ({ operation, terms }: Summary): Terms | null => shown[operation.id] ?? terms,
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
