import type { ComponentChildren } from "preact"
import { useId } from "preact/hooks"

/** A titled part of a page. */
export const Panel = ({ aside, children, class: name = "", id: anchor, title }: {
  readonly title: string
  /** Makes it the target of a link. */
  readonly id?: string
  /** Beside the title. */
  readonly aside?: ComponentChildren
  readonly class?: string
  readonly children: ComponentChildren
}) => {
  const id = useId()
  return (
    <section id={anchor} class={`panel ${name}`} aria-labelledby={id}>
      <div class="panel-head">
        <h2 id={id}>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  )
}
