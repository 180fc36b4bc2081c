export const describe = (document: Record<string, unknown>): Record<string, unknown> => document
