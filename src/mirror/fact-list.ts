// Facts about the upstream as people read them. Read-only.

import type { ClientBase } from 'pg'

export type FactLine = {
  readonly stream: string
  readonly name: string
  readonly value: string
  readonly evidence: string
  readonly firstAt: Date
  readonly checkedAt: Date
  readonly previousValue: string | null
  /** When it flipped; null when it never did. */
  readonly changedAt: Date | null
}

export async function readFacts(client: Pick<ClientBase, 'query'>): Promise<readonly FactLine[]> {
  const { rows } = await client.query<FactLine>(
    `select stream, name, value, evidence, first_at as "firstAt", checked_at as "checkedAt",
       previous_value as "previousValue", changed_at as "changedAt"
     from tidemark.fact order by stream, name`,
  )
  return rows
}
