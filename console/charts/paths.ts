/** Paths of SVG through points in pixels. */

export type Point = readonly [x: number, y: number]

const move = ([x, y]: Point): string => `${x.toFixed(1)},${y.toFixed(1)}`

/** A straight line from point to point. */
export const linePath = (points: ReadonlyArray<Point>): string => `M${points.map(move).join("L")}`

/** The last value lasts until the edge in pixels: the interval that has begun. */
export const lasting = (
  points: ReadonlyArray<Point>,
  edge: number
): ReadonlyArray<Point> => [...points, ...points.slice(-1).map(([, y]): Point => [edge, y])]

/** Each value lasts until the next point. */
const steps = (points: ReadonlyArray<Point>): ReadonlyArray<Point> =>
  points.flatMap((point, index): ReadonlyArray<Point> =>
    index === 0 ? [point] : [[point[0], points[index - 1]![1]], point]
  )

/** A line in steps. */
export const stepPath = (points: ReadonlyArray<Point>): string => linePath(steps(points))

/** The area in steps between an upper and a lower edge. */
export const areaPath = (upper: ReadonlyArray<Point>, lower: ReadonlyArray<Point>): string =>
  `${linePath([...steps(upper), ...steps(lower).toReversed()])}Z`
