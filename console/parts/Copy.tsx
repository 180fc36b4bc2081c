import { useState } from "preact/hooks"
import { announce } from "../data/announcements.ts"

/** Copies a text. `what` names it for screen readers. */
export const Copy = ({ label = "Copy", text, what }: {
  readonly text: string
  readonly what: string
  readonly label?: string
}) => {
  const [copied, setCopied] = useState(false)
  const copy = async () => {
    await navigator.clipboard.writeText(text)
    announce(`${what} copied.`)
    setCopied(true)
    setTimeout(() => setCopied(false), 2000)
  }
  const shown = copied ? "Copied" : label
  return (
    <button type="button" class="quiet copy" aria-label={`${shown}: ${what}`} onClick={() => void copy()}>
      {shown}
    </button>
  )
}
