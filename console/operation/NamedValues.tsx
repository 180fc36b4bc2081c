import type { ComponentChildren } from "preact"

/** Values with their names. Names without a value are left out. */
export const NamedValues = ({ values }: {
  readonly values: ReadonlyArray<readonly [name: string, value: ComponentChildren]>
}) => (
  <dl class="facts">
    {values.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
)
