import { useEffect, useRef, useState } from "preact/hooks"
import { Refused } from "../data/request.ts"
import { instead, type Outcome } from "./ActionOutcome.tsx"

/**
 * A modal dialog that asks for a confirmation, and sends the confirmed action once. `outcome` is undefined until there is one. The first
 * focus is on `safe`, which confirms nothing.
 */
export const useConfirmation = <Safe extends HTMLElement = HTMLButtonElement>(close: (done: boolean) => void) => {
  const dialog = useRef<HTMLDialogElement>(null)
  const safe = useRef<Safe>(null)
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const [sending, setSending] = useState(false)
  // An open dialog makes the page inert, so it closes before the focus returns to the page.
  const leave = (done: boolean) => {
    dialog.current?.close()
    close(done)
  }
  const perform = async (send: () => Promise<unknown>) => {
    setSending(true)
    setOutcome(undefined)
    try {
      await send()
      leave(true)
    } catch (error) {
      const refused = error instanceof Refused ? error : undefined
      if (refused?.code === "done_but_unread") return leave(true)
      setOutcome(refused !== undefined && refused.code in instead ? refused : "unknown")
      setSending(false)
    }
  }
  useEffect(() => {
    dialog.current?.showModal()
    safe.current?.focus()
  }, [])
  const cancelled = (event: Event) => {
    event.preventDefault()
    if (!sending) leave(false)
  }
  return { cancelled, dialog, leave, outcome, perform, safe, sending }
}
