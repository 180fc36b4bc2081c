import type { ComponentChildren } from "preact"

/** `well`: that is how it should be. `missing`: what was looked for is not there. */
type Kind = "well" | "missing"

const shapes: Readonly<Record<Kind, string>> = {
  well: "M20 5a15 15 0 1 0 0 30a15 15 0 1 0 0-30M13.5 20.5l4.5 4.5 8.5-9.5",
  missing: "M18 7a11 11 0 1 0 0 22a11 11 0 1 0 0-22M26 26l8 8"
}

/** Says that there is nothing, and what that means. */
export const Empty = ({ children, kind = "well", title }: {
  readonly title: string
  readonly kind?: Kind
  readonly children: ComponentChildren
}) => (
  <div class="empty">
    <svg viewBox="0 0 40 40" width="40" height="40" aria-hidden="true">
      <path d={shapes[kind]} />
    </svg>
    <p class="empty-title">{title}</p>
    <p>{children}</p>
  </div>
)
