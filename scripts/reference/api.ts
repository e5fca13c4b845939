// docs/reference/api.md, from the description that the worker serves.

import { describeApi } from '../../src/web/api/openapi.ts'
import { code, generatedBy, table } from './markdown.ts'

type Parameter = { readonly name: string; readonly in: string }
type Described = {
  readonly summary: string
  readonly description: string
  readonly parameters: readonly Parameter[]
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema: { readonly properties?: object } }>>
  }
}

/** `stream`, `limit`: what can be given besides the path. */
const given = ({ parameters, requestBody }: Described): string => {
  const body = Object.values(requestBody?.content ?? {}).flatMap(({ schema }) =>
    Object.keys(schema.properties ?? {}),
  )
  const query = parameters.filter((one) => one.in === 'query').map(({ name }) => name)
  return [...query, ...body].map(code).join(', ')
}

const roleIn = ({ description }: Described): string => /role (\w+)/.exec(description)?.[1] ?? ''

export function apiPage(): string {
  const { paths } = describeApi('')
  const rows = (method: 'get' | 'post') =>
    Object.entries(paths as Record<string, Partial<Record<'get' | 'post', Described>>>).flatMap(
      ([path, { [method]: described }]) =>
        described
          ? [
              [
                ...[code(path), described.summary, given(described)],
                ...(method === 'post' ? [roleIn(described)] : []),
              ],
            ]
          : [],
    )
  return [
    generatedBy('src/documents/ and src/web/api/'),
    `# The API

All addresses below \`/api/v1\`. The worker serves the whole description, with the schema of every answer, as OpenAPI 3.1 at \`/api/v1/openapi.json\`.
[Use the API](../guides/api.md) shows how.

## Documents (GET)

${table(['address', 'answers', 'query'], rows('get'))}`,
    `## Actions (POST)

${table(['address', 'does', 'body', 'role'], rows('post'))}`,
  ].join('\n')
}
