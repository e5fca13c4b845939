// Which rules for private fields are in force here, whatever the dictionary says by now.

import { sourceIn } from '../../streams/names.ts'
import type { NotedRule } from '../../streams/private-fields.ts'
import { queryRows } from '../book/ask.ts'
import { sourceSql } from '../schema/places.ts'
import type { Queryable } from '../server/session.ts'

export type RuleInForce = NotedRule & { readonly stream: string }

/** Of the source $1. */
export const rulesSql = `select stream, field, rule, key_mark as "keyMark" from tidemark.private_field where ${sourceSql('stream')} = $1 order by field`

export async function readNoted(client: Queryable, stream: string): Promise<readonly RuleInForce[]> {
  const values = [sourceIn(stream)]
  return await queryRows<RuleInForce>(client, {
    name: 'tidemark_private_fields',
    text: rulesSql,
    values,
  })
}
