// The description of the API, OpenAPI 3.1, made of the schemas by which it reads requests and of those of the documents that it answers.

import { z } from 'zod'
import { heldText } from '../../documents/document.ts'
import { record, recordStory } from '../../documents/records.ts'
import { documents } from '../../documents/table.ts'
import { neededRole, type Role } from '../../operator/roles.ts'
import { onlyTargets } from '../actions.ts'
import { apiActionPaths, apiActions, comparePath, compareRole } from './actions.ts'
import { apiBase } from './scope.ts'

type Schema = Readonly<Record<string, unknown>>
type Operation = {
  readonly id: string
  readonly title: string
  /** The least role whose token may do it. */
  readonly role: Role
  readonly parameters: Schema
  /** What can be said in the body; null: nothing. */
  readonly body: Schema | null
  /** It may have only begun when it is answered. */
  readonly mayGoOn?: boolean
  readonly answer: Schema
  /** Of a list that goes on. */
  readonly hasMore?: boolean
  readonly refusals: readonly Refusal[]
}

const refusals = {
  400: 'The request is not as this description says',
  401: 'The token is missing or wrong',
  403: 'The role of the token is not enough',
  404: 'Nothing has this name, or this key',
  409: 'It cannot be done as things stand; `detail` says why',
  413: 'The body is too long',
  415: 'The body is no JSON',
  421: 'The worker does not know the name in `Host` as its own',
  429: 'Too many wrong tokens came from this address; `Retry-After` says how long to wait',
  500: 'It failed; the log of the worker says why',
  503: 'Not now: the worker waits for its database or its queue, or answers others; `Retry-After` may say how long to wait',
} as const
type Refusal = keyof typeof refusals
const always: readonly Refusal[] = [400, 401, 403, 421, 429, 500, 503]

export function describeApi(version: string) {
  const schemas: Record<string, unknown> = {}
  const schemaOf = (schema: z.ZodType): Schema => {
    const {
      $defs = {},
      $schema: _,
      ...own
    } = z.toJSONSchema(schema, {
      unrepresentable: 'any',
      io: 'input',
      target: 'draft-2020-12',
    })
    Object.assign(schemas, toComponents($defs))
    return toComponents(own)
  }
  const paths = describePaths(schemaOf)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tidemark',
      version,
      license: { name: 'MIT', identifier: 'MIT' },
      description:
        'What the console shows, as the documents that the terminal prints with `--json`, and what can be done there. Actions are recorded. Doing one again does no harm: it changes nothing, or is refused because things stand otherwise by then.',
    },
    servers: [{ url: apiBase }],
    security: [{ token: [] }],
    paths,
    components: {
      schemas: { ...schemas, ProblemDetails: problemDetails },
      responses: Object.fromEntries(
        Object.entries(refusals).map(([status, description]) => [
          `Refused${status}`,
          {
            description,
            content: {
              'application/problem+json': { schema: { $ref: '#/components/schemas/ProblemDetails' } },
            },
          },
        ]),
      ),
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description:
            'A token that was made for a person or a program, ADMIN_TOKEN, or VIEWER_TOKEN to read',
        },
      },
    },
  }
}

function describePaths(schemaOf: (schema: z.ZodType) => Schema): Record<string, object> {
  const paths: Record<string, object> = {}
  for (const [name, { path, title, asked, answer, ...more }] of Object.entries(documents)) {
    const reads = { id: `get_${snake(name)}`, title, role: 'viewer', body: null } as const
    const says = {
      parameters: schemaOf(asked),
      answer: schemaOf(answer),
      hasMore: (more.cursorOf ?? more.nextOf) !== undefined,
    }
    paths[path] = { get: operation(path, { ...reads, ...says, refusals: [404, 409] }) }
  }
  for (const [name, path] of apiActionPaths) {
    const { title, fields, answer } = apiActions[name]
    const parameters = schemaOf(parametersIn(path))
    // What can be done to all, and to one that is named.
    const id = [snake(name), ...(onlyTargets[name] === undefined ? [] : namesIn(path))].join('_')
    const acts = { id, title, role: neededRole[name], parameters }
    const body = Object.keys(fields.shape).length === 0 ? null : schemaOf(fields)
    const says = { body, answer: schemaOf(answer), mayGoOn: true }
    paths[path] = { post: operation(path, { ...acts, ...says, refusals: [404, 409, 413, 415] }) }
  }
  const compares = {
    id: 'compare_record',
    title: 'Ask the upstream for one record, and compare it with its row',
    role: compareRole,
  }
  const parameters = schemaOf(record.asked)
  paths[comparePath] = {
    post: operation(comparePath, {
      ...compares,
      parameters,
      body: null,
      answer: schemaOf(recordStory),
      refusals: [404, 409, 413, 415],
    }),
  }
  return paths
}

const problemDetails = {
  type: 'object',
  description: 'RFC 9457',
  required: ['type', 'title', 'status', 'detail'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string', description: 'What is wrong and what to do, in one line' },
  },
}

const toComponents = (schema: object): Schema =>
  JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/'))

const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const namesIn = (path: string): readonly string[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
const parametersIn = (path: string) =>
  z.object(Object.fromEntries(namesIn(path).map((name) => [name, heldText.min(1).max(200)])))

function operation(
  path: string,
  { id, title, role, parameters, body, answer, hasMore = false, mayGoOn = false, ...more }: Operation,
) {
  const { properties = {}, required = [] } = parameters as {
    properties?: Record<string, Schema>
    required?: string[]
  }
  const inPath = namesIn(path)
  const next = {
    description: 'The address of the next page, as `<…>; rel="next"`',
    schema: { type: 'string' },
  }
  const answered = {
    content: { 'application/json': { schema: answer } },
    ...(hasMore && { headers: { Link: next } }),
  }
  return {
    operationId: id,
    summary: title,
    description: `Needs the role ${role}.`,
    tags: [path.split('/')[1]],
    parameters: Object.entries(properties).map(([name, { description, ...schema }]) => ({
      name,
      in: inPath.includes(name) ? 'path' : 'query',
      schema,
      ...(description !== undefined && { description }),
      required: inPath.includes(name) || required.includes(name),
    })),
    ...(body && {
      requestBody: { required: isRequired(body), content: { 'application/json': { schema: body } } },
    }),
    responses: {
      200: { description: 'Done', ...answered },
      ...(mayGoOn && { 202: { description: 'Begun: the work goes on after the answer', ...answered } }),
      431: { description: 'The address or the headers are too long' },
      ...Object.fromEntries(
        [...always, ...more.refusals].map((status) => [
          status,
          { $ref: `#/components/responses/Refused${status}` },
        ]),
      ),
    },
  }
}

const isRequired = ({ required }: Schema): boolean => Array.isArray(required) && required.length > 0
