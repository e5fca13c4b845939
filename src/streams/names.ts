// How streams are called. A stream of the source `acme` is `acme.assignment`, as its view is in SQL; streams of the source that the
// environment describes have no prefix. No other file makes such a name or takes one apart.

/** The name of a stream within its source made unique in the deployment. */
export const keyIn = (source: string, base: string): string => (source === '' ? base : `${source}.${base}`)

/** The source of a stream; empty: the one that the environment describes. */
export const sourceIn = (key: string): string => key.slice(0, Math.max(0, key.indexOf('.')))

/** The name of a stream within its source. */
export const baseOf = (key: string): string => key.slice(key.indexOf('.') + 1)

/** Another stream of the same source. */
export const besideIn = (key: string, base: string): string => keyIn(sourceIn(key), base)

/** Related records are read with the assignments of their source. */
export const assignmentsBeside = (key: string): string => besideIn(key, 'assignment')

export const isAssignments = (key: string): boolean => baseOf(key) === 'assignment'

/** What people call the source that the environment describes. */
export const environmentSource = 'environment'

/** So many sources can be in a view over sources: a query of it locks several things of each. */
export const mostInUnion = 250

/** The schemas of a source: tables, views, and the months of its histories. */
export const schemasOf = (source: string) =>
  source === ''
    ? { tables: 'mirror', views: 'bi', past: 'tidemark' }
    : { tables: `${source}_mirror`, views: source, past: `${source}_past` }

/** For people: the table of a stream. */
export const tableName = (key: string): string => `${schemasOf(sourceIn(key)).tables}.${baseOf(key)}`

/** For people: the view of a stream. */
export const viewName = (key: string): string => `${schemasOf(sourceIn(key)).views}.${baseOf(key)}`
