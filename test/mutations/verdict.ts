// Says whether a test noticed a fault. It did when it saw something wrong: a program that does not compile, crashes or hangs
// shows nothing about what the test looks at.

/** What a test file came to. */
export type Observation = {
  readonly passed: number
  readonly failures: readonly Failure[]
  /** What went wrong outside of the tests: a file that cannot be loaded, an error that nobody caught. */
  readonly otherErrors: readonly string[]
}
export type Failure = { readonly title: string; readonly errors: readonly SeenError[] }
/** As Vitest carries it from one process to the other. */
export type SeenError = {
  readonly name?: string | undefined
  readonly message: string
  readonly cause?: SeenError | undefined
}

export type Verdict = {
  readonly verdict: 'noticed' | 'missed' | 'does not compile' | 'failed otherwise'
  /** The title of the test that noticed, or what went wrong instead. */
  readonly reason: string
}

export function judge({ passed, failures, otherErrors }: Observation): Verdict {
  const noticed = failures.find(({ errors }) => errors.some(isAssertion))
  if (noticed) return { verdict: 'noticed', reason: noticed.title }
  const crashes = failures.flatMap(({ title, errors }) => errors.map((error) => `${title}: ${told(error)}`))
  const [crash] = [...crashes, ...otherErrors]
  if (crash !== undefined) return { verdict: 'failed otherwise', reason: crash }
  return passed > 0
    ? { verdict: 'missed', reason: `${passed} tests passed` }
    : { verdict: 'failed otherwise', reason: 'no test ran' }
}

/** fast-check tells of the input in an error of its own, and of what it broke in its cause. */
export const isAssertion = ({ name, message, cause }: SeenError): boolean =>
  name === 'AssertionError' ||
  (message.startsWith('Property failed after') && cause !== undefined && isAssertion(cause))

export function told({ name, message, cause }: SeenError): string {
  const [first = ''] = message.split('\n')
  return `${name ?? 'Error'}: ${first}${cause ? ` (${told(cause)})` : ''}`
}
