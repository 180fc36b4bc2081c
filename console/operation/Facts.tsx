import type { ComponentChildren } from "preact"

/** Name and value of each fact. Facts without a value are left out. */
export const Facts = ({ facts }: {
  readonly facts: ReadonlyArray<readonly [name: string, value: ComponentChildren]>
}) => (
  <dl class="facts">
    {facts.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
)
