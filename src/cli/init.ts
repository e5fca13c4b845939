// `tidemark init`: asks for what is needed to mirror an upstream, tries each answer out, and writes .env. Keys are never shown.

import { resolve } from 'node:path'
import { type Environment, loadConfig, loadProxies } from '../config/load.ts'
import { variables } from '../config/variables.ts'
import { configuredStreams } from '../configured.ts'
import { keepSecret } from '../log.ts'
import type { ServiceName } from '../streams/catalog.ts'
import { openQuestions, type Questions } from './ask.ts'
import type { Call, Command } from './command.ts'
import { writeDotEnv } from './dot-env.ts'
import { type ExitCode, worst } from './exit.ts'
import { expectNoWords } from './parse.ts'
import { everyCheck, markOfCheck } from './probe.ts'
import type { Check } from './probe-beliefs.ts'
import { exitCodeOfCheck, probePostgres, probeService } from './probe-checks.ts'
import { probeHost } from './probe-hosts.ts'

export const init: Command = {
  name: 'init',
  summary: 'ask for the settings, test them, and write .env',
  usage: '',
  options: {},
  examples: ['tidemark init'],
  ignoresDemo: true,
  run,
}

const file = '.env'

/** Tries out an answer. All checks have to pass before the next question. */
type Try = (settings: Environment, call: Call) => Promise<readonly Check[]>
type Step = {
  readonly names: readonly Asked[]
  readonly isTried: Try
  /** If the first answer is empty, nothing is tried, and the rest of the step is not asked. */
  readonly mayBeEmpty?: boolean
}
type Asked = { readonly name: string; readonly text: string }

const steps: readonly Step[] = [
  {
    names: [{ name: 'ASSIGNMENT_BASE_URL', text: 'Assignment service URL' }],
    isTried: (settings) => probeHost(settings.ASSIGNMENT_BASE_URL ?? '', loadProxies(settings)),
  },
  {
    names: [{ name: 'AUTH_URL', text: 'Identity provider URL' }],
    isTried: (settings) => probeHost(settings.AUTH_URL ?? '', loadProxies(settings)),
  },
  {
    names: [
      { name: 'CLIENT_GUID', text: 'Client GUID' },
      { name: 'SUBJECT_ID', text: 'Subject ID' },
      { name: 'API_KEY', text: 'API key' },
    ],
    isTried: (settings, call) => tryService(settings, call, 'assignment'),
  },
  {
    names: [{ name: 'TRACKING_BASE_URL', text: 'Tracking service URL' }],
    isTried: (settings, call) => tryService(settings, call, 'tracking'),
    mayBeEmpty: true,
  },
  {
    names: [{ name: 'DATABASE_URL', text: 'Postgres URL' }],
    isTried: (settings, { log }) => probePostgres(loadConfig(settings), log),
    mayBeEmpty: true,
  },
]
const whenEmpty: Readonly<Record<string, string>> = {
  TRACKING_BASE_URL: 'empty: none',
  DATABASE_URL: 'empty: Tidemark starts one',
}

async function run(call: Call): Promise<ExitCode> {
  expectNoWords('init', call)
  const { stdout, environment, signal } = call
  const questions = openQuestions(stdout, signal)
  const answers: Record<string, string> = {}
  try {
    for (const step of steps) await answer(step, { call, questions, answers, known: environment })
  } finally {
    questions.close()
  }
  writeDotEnv(resolve(file), answers)
  const checks: Check[] = []
  const settings = { ...environment, ...answers }
  for await (const check of everyCheck({ ...call, environment: settings })) checks.push(check)
  const wrong = checks.filter(({ isFine }) => !isFine)
  for (const check of wrong) say(call, check)
  stdout.write(`${stdout.mark(wrong.length === 0 ? 'good' : 'warning')} `)
  stdout.say(
    `wrote ${file}, readable by you alone; ${checks.length - wrong.length} of ${checks.length} checks passed`,
  )
  stdout.say(wrong.length === 0 ? 'Next: tidemark serve' : 'Next: mend that, then tidemark probe')
  return worst(checks.map(exitCodeOfCheck))
}

type Asking = {
  readonly call: Call
  readonly questions: Questions
  readonly answers: Record<string, string>
  readonly known: Environment
}

/** Asks until what was answered works. */
async function answer(step: Step, asking: Asking): Promise<void> {
  const { call, answers, known } = asking
  for (;;) {
    const isEmpty = await askAll(step, asking)
    if (isEmpty) return
    const checks = await step.isTried({ ...known, ...answers }, call)
    for (const check of checks) say(call, check)
    if (checks.every(({ isFine }) => isFine)) return
  }
}

/** Asks all questions of a step. Returns whether the first was left empty, which ends the step. */
async function askAll({ names, mayBeEmpty = false }: Step, asking: Asking): Promise<boolean> {
  const { call, questions, answers, known } = asking
  for (const { name, text } of names) {
    const variable = variables[name]
    for (;;) {
      const isSecret = variable?.secret === true
      const hint = whenEmpty[name] ? ` (${whenEmpty[name]})` : ''
      const typed = await questions.ask({
        ...{ text: `${text}${hint}`, isSecret },
        known: answers[name] ?? known[name] ?? null,
      })
      if (isSecret && typed !== '') keepSecret(typed)
      if (typed === '' && mayBeEmpty) {
        answers[name] = ''
        return true
      }
      const parsed = variable?.schema.safeParse(typed === '' ? undefined : typed)
      answers[name] = typed
      if (parsed?.success !== false) break
      const issue = parsed.error.issues[0]?.message ?? 'is not usable'
      say(call, { name: text, isFine: false, says: typed === '' ? 'is needed' : issue })
    }
  }
  return false
}

/** Signs in, and looks whether each stream can be read. */
async function tryService(
  settings: Environment,
  call: Call,
  service: ServiceName,
): Promise<readonly Check[]> {
  const config = loadConfig({ STREAMS: '', ...settings, DATABASE_URL: '' })
  const streams = configuredStreams(config)
  const checks: Check[] = []
  const { log, signal } = call
  for await (const check of probeService({ config, streams, mirror: null, log, signal }, service)) {
    const [kind] = check.name.split(' ')
    if (kind === 'sign-in' || kind === 'stream' || kind === 'clock') checks.push(check)
  }
  return checks
}

function say({ stdout }: Pick<Call, 'stdout'>, check: Check): void {
  stdout.write(`  ${stdout.mark(markOfCheck(check))} `)
  stdout.say(`${check.name}: ${check.says}`)
}
