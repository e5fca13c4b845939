// Calls the stand-in upstream over HTTP with nothing but fetch, so that its tests share no code with the real client.

import type { Simulator } from '../../src/simulator/simulator.ts'

type Reply = {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  json(): unknown
}
type CallOptions = {
  readonly body?: unknown
  readonly form?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}
export type Caller = {
  assignment(line: string, options?: CallOptions): Promise<Reply>
  tracking(line: string, options?: CallOptions): Promise<Reply>
  /** The records of a list, asked for by path. */
  list(path: string): Promise<readonly Record<string, unknown>[]>
  /** The row versions `neworchanged` answers. */
  versions(since: bigint | number, query?: string): Promise<readonly number[]>
}

export async function signIn(simulator: Simulator, clientId: 3 | 13 = 3): Promise<string> {
  const { subjectId, apiKey } = simulator.credentials
  const response = await fetch(`${simulator.authUrl}/Token/GenerateAccessTokenFromCache`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ clientId, subjectId, apiKey }),
  })
  const answer = (await response.json()) as { accessToken: string }
  return answer.accessToken
}

export async function openCaller(simulator: Simulator): Promise<Caller> {
  const [assignmentToken, trackingToken] = [await signIn(simulator, 3), await signIn(simulator, 13)]
  const assignmentHeaders = {
    authorization: `Bearer ${assignmentToken}`,
    clientId: simulator.credentials.clientGuid,
  }
  const assignment: Caller['assignment'] = (line, options) =>
    call(simulator.assignmentUrl, line, assignmentHeaders, options)
  const list: Caller['list'] = async (path) =>
    (await assignment(`GET ${path}`)).json() as Record<string, unknown>[]
  return {
    assignment,
    list,
    tracking: (line, options) =>
      call(simulator.trackingUrl, line, { authorization: `Bearer ${trackingToken}` }, options),
    async versions(since, query = '') {
      const records = await list(`/api/Assignment/neworchanged/${since}?${query}`)
      return records.map((record) => Number(record.RowVersion))
    },
  }
}

async function call(
  baseUrl: string,
  line: string,
  headers: Readonly<Record<string, string>>,
  options: CallOptions = {},
): Promise<Reply> {
  const [method = '', path = ''] = line.split(' ')
  const isJson = options.body !== undefined
  const body = options.form ? new URLSearchParams(options.form) : JSON.stringify(options.body)
  const response = await fetch(`${baseUrl}${path}`, {
    method,
    headers: { ...headers, ...(isJson && { 'content-type': 'application/json' }), ...options.headers },
    ...(body !== undefined && { body }),
    ...(options.signal && { signal: options.signal }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, json: () => JSON.parse(text) }
}
