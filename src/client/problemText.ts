interface ProblemWords {
  readonly title: string
  readonly detail: string
  readonly code: string
  readonly fields: ReadonlyArray<{ readonly path: string; readonly message: string }> | null
  readonly request_id: string
}

/** The fields of a problem, with what each of them should be. */
export const namedFields = (fields: ReadonlyArray<{ readonly path: string; readonly message: string }>): string =>
  fields.map(({ message, path }) => `${path}: ${message}`).join("; ")

/** A problem in one line, for logs and terminals: what happened, the fields that it is about, the code and the request id. */
export const problemText = ({ code, detail, fields, request_id, title }: ProblemWords): string => {
  const named = namedFields(fields ?? [])
  return `${title}: ${detail}${named === "" || detail === named ? "" : ` ${named}`} (${code}, request ${request_id})`
}
