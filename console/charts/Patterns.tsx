/** The series with a texture: areas beside each other, so that their colours need not tell them apart. */
export const textures: ReadonlyArray<string> = ["submitting", "indeterminate"]

/** Defines the textures. */
export const Patterns = ({ id }: { readonly id: string }) => (
  <defs>
    <pattern id={`${id}-submitting`} width="5" height="5" patternUnits="userSpaceOnUse">
      <circle cx="2.5" cy="2.5" r="0.9" class="texture-mark" />
    </pattern>
    <pattern
      id={`${id}-indeterminate`}
      width="6"
      height="6"
      patternUnits="userSpaceOnUse"
      patternTransform="rotate(45)"
    >
      <line x1="0" x2="0" y1="0" y2="6" class="texture-line" />
    </pattern>
  </defs>
)
