// One call of the upstream for a person: what it answers is printed as its own JSON, with every digit, less what is known to
// be secret (P9). A write is followed by a nudge.

import { type Call, type ExitCode, exitCodes } from '../cli/command.ts'
import { loadConfig } from '../config.ts'
import { openConfiguredUpstream } from '../configured-upstream.ts'
import { type Json, repeatedFields } from '../json/json.ts'
import { redact } from '../log.ts'
import type { NamedAssignment } from '../mirror/related-due.ts'
import { isObject } from '../record.ts'
import { type Operation, type OperationName, operations } from '../upstream/operations.ts'
import { ParameterError } from '../upstream/parameters.ts'
import { type AnyRequest, prepareRequest, type RequestOf } from '../upstream/request.ts'
import { UpstreamError } from '../upstream/upstream-error.ts'
import { UsageError } from '../usage-error.ts'
import { nudgeAfterWrite } from './nudge-after-write.ts'

export async function callUpstream(call: Call, name: OperationName, request: AnyRequest): Promise<ExitCode> {
  const operation: Operation = operations[name]
  checkBeforeSending(operation, request)
  const { log, signal } = call
  const config = loadConfig(call.environment)
  const upstream = openConfiguredUpstream({ config, log }, operation.service)
  if (!upstream) throw new UsageError(`${operation.path} needs TRACKING_BASE_URL, which is not set`)
  const isWrite = operation.method !== 'GET'
  const nudge = () => nudgeAfterWrite({ config, log }, name, assignmentOf(request))
  try {
    const { body, status } = await upstream.call(name, request as RequestOf<OperationName>, signal)
    if (body === null) log.info({ status }, 'done; the answer has no body')
    else print(call, body)
    if (isWrite) await nudge()
    return exitCodes.done
  } catch (error) {
    if (isWrite && error instanceof UpstreamError && error.mayHaveArrived) await nudge()
    throw error
  } finally {
    upstream.close()
  }
}

function assignmentOf({ path }: AnyRequest): NamedAssignment | null {
  if (path?.assignmentId !== undefined) return { id: String(path.assignmentId) }
  return path?.assignmentIdExt === undefined ? null : { idExt: String(path.assignmentIdExt) }
}

function checkBeforeSending(operation: Operation, request: AnyRequest): void {
  try {
    prepareRequest(operation, request)
  } catch (cause) {
    throw cause instanceof ParameterError ? new UsageError(cause.message, { cause }) : cause
  }
}

function print({ log, stdout }: Call, body: Json): void {
  stdout.write(`${redact(JSON.stringify(body, null, 2))}\n`)
  for (const record of Array.isArray(body) ? body : [body]) {
    const earlier = isObject(record) ? record[repeatedFields] : undefined
    if (earlier) log.warn({ earlier }, 'fields that the answer has twice: the last value is printed')
  }
}
