import type { ComponentChildren } from "preact"

/** Says that there is nothing, and what that means. */
export const Empty = ({ children, title }: { readonly title: string; readonly children: ComponentChildren }) => (
  <div class="empty">
    <svg viewBox="0 0 40 40" width="40" height="40" aria-hidden="true">
      <circle cx="20" cy="20" r="15" />
      <path d="M13.5 20.5l4.5 4.5 8.5-9.5" />
    </svg>
    <p class="empty-title">{title}</p>
    <p>{children}</p>
  </div>
)
