// Posts one message to the receiver of alerts. Follows no redirect, waits briefly, reads no answer, and names the address in no
// error: the address is the secret (P9).

type Options = { readonly url: string; readonly body: string; readonly signal: AbortSignal }

/** The message may not have arrived. */
export class AlertUndelivered extends Error {
  override readonly name = 'AlertUndelivered'
  /** As the receiver asked. */
  readonly retryAfterMs: number | null

  constructor(problem: string, retryAfterMs: number | null = null) {
    super(`an alert could not be delivered: ${problem}; it is tried again by itself`)
    this.retryAfterMs = retryAfterMs
  }
}

const patienceMs = 10_000

export async function sendAlert({ url, body, signal }: Options): Promise<void> {
  const timeout = AbortSignal.timeout(patienceMs)
  let answer: Response
  try {
    answer = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': 'tidemark' },
      body,
      redirect: 'manual',
      signal: AbortSignal.any([signal, timeout]),
    })
  } catch (error) {
    throw new AlertUndelivered(
      timeout.aborted
        ? `the receiver did not answer within ${patienceMs / 1000} s`
        : `the receiver cannot be reached (${codeOf(error)}): check ALERT_WEBHOOK_URL and the network`,
    )
  }
  await answer.body?.cancel()
  if (answer.ok) return
  const { status } = answer
  if (status >= 300 && status < 400)
    throw new AlertUndelivered(
      `the receiver redirects (${status}), which is not followed: set ALERT_WEBHOOK_URL to the address it moved to`,
    )
  const seconds = Number(answer.headers.get('retry-after') ?? Number.NaN)
  throw new AlertUndelivered(
    `the receiver answered ${status}: check ALERT_WEBHOOK_URL`,
    Number.isFinite(seconds) ? seconds * 1000 : null,
  )
}

function codeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : null
  if (typeof cause !== 'object' || cause === null) return 'no reason given'
  if ('code' in cause && typeof cause.code === 'string') return cause.code
  return 'name' in cause ? String(cause.name) : 'no reason given'
}
