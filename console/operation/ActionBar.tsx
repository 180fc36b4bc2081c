import type { RefObject } from "preact"
import { useRef, useState } from "preact/hooks"
import type { Detail } from "../../src/operator/console/ConsoleApi.ts"
import { announce } from "../data/announcements.ts"
import { ActionDialog } from "./ActionDialog.tsx"
import { type ActionText, actionTexts } from "./actions.ts"
import { AdvanceDialog, mayAdvance } from "./AdvanceDialog.tsx"

interface Opened {
  /** Null: the record of an outcome. */
  readonly action: ActionText | null
  /** The operation as the operator saw it when the dialog opened. */
  readonly detail: Detail
}

/** The actions that the state of the operation permits. The ledger decides. */
export const ActionBar = ({ detail, heading, reload }: {
  readonly detail: Detail
  /** Takes the focus if the button of the action is gone after it. */
  readonly heading: RefObject<HTMLHeadingElement | null>
  readonly reload: () => void
}) => {
  const [opened, setOpened] = useState<Opened | null>(null)
  const opener = useRef<HTMLButtonElement | null>(null)
  const close = (done: boolean) => {
    if (opened !== null && done) announce(`Done: ${opened.action?.confirm ?? "Record outcome"}.`)
    setOpened(null)
    if (done) heading.current?.focus()
    else if (opener.current?.isConnected === true) opener.current.focus()
    else heading.current?.focus()
    reload()
  }
  const open = (action: ActionText | null) => (event: { readonly currentTarget: HTMLButtonElement }) => {
    opener.current = event.currentTarget
    setOpened({ action, detail })
  }
  const possible = actionTexts.filter((action) => action.possible(detail))
  return (
    <>
      {possible.length > 0 && (
        <div class="actions" role="group" aria-label="Actions">
          {possible.map((action) => (
            <button key={action.name} type="button" onClick={open(action)}>{action.label}</button>
          ))}
          {mayAdvance(detail) && <button type="button" onClick={open(null)}>Record outcome</button>}
        </div>
      )}
      {opened !== null && (opened.action === null
        ? <AdvanceDialog detail={opened.detail} close={close} />
        : <ActionDialog action={opened.action} detail={opened.detail} close={close} />)}
    </>
  )
}
