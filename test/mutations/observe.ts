// `node observe.ts <test files>`: runs them in the checkout that is the working directory and sends its parent what was seen. Ends
// with the first assertion that fails, unless the tests must all pass.

import { type Reporter, startVitest, type TestModule, type Vitest } from 'vitest/node'
import { type Failure, isAssertion, type Observation, type SeenError, told } from './verdict.ts'

const mustPass = process.env.MUST_PASS === 'yes'
let vitest: Vitest | null = null

const reporter: Reporter = {
  onInit: (started) => {
    vitest = started
  },
  onTestCaseResult: (test) => {
    if (mustPass || !test.result().errors?.some(isAssertion)) return
    process.send?.(observed([test.module], []))
    // Not awaited: it waits for the test, which waits for this.
    void vitest?.cancelCurrentRun('test-failure')
  },
  onTestRunEnd: (modules, unhandled) => {
    process.send?.(observed(modules, unhandled))
  },
}

function observed(modules: readonly TestModule[], unhandled: readonly SeenError[]): Observation {
  const tests = modules.flatMap(({ children }) => [...children.allTests()])
  const failures = tests.flatMap((test): Failure[] => {
    const { state, errors } = test.result()
    if (state !== 'failed') return []
    return [{ title: test.fullName, errors: errors.map(shortened) }]
  })
  const suites = modules.flatMap((module) => [module, ...module.children.allSuites()])
  return {
    passed: tests.filter((test) => test.result().state === 'passed').length,
    failures,
    otherErrors: [...suites.flatMap((suite) => suite.errors()), ...unhandled].map(told),
  }
}

/** Without what it was compared with, which can be large. */
const shortened = ({ name, message, cause }: SeenError): SeenError => ({
  name,
  message,
  cause: cause && shortened(cause),
})

const ended = await startVitest(process.argv.slice(2), { run: true, watch: false, reporters: [reporter] })
await ended.close()
process.disconnect?.()
