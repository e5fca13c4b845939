// `tidemark init`: asks for what is needed to mirror an upstream, tries each answer out, and writes .env. Keys are never shown.

import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import { type Environment, loadConfig } from '../config/load.ts'
import { keepSecret } from '../log.ts'
import { openQuestions, type Questions } from './ask.ts'
import { areFine, type Check, exitCodeOfCheck, good, markOfCheck, wrong } from './check.ts'
import { type Call, type Command, expectNoWords } from './command.ts'
import { expectWritable, writeDotEnv } from './dot-env.ts'
import type { ExitCode } from './exit.ts'
import { worst } from './exit.ts'
import { placeholders, type Question, questionsFor, type Tried, tokenMade } from './init-questions.ts'
import { everyCheck } from './probe.ts'

export const init: Command = {
  name: 'init',
  summary: 'ask for the settings, test them, and write .env',
  usage: '',
  options: {},
  examples: ['tidemark init'],
  ignoresDemo: true,
  async run(call) {
    expectNoWords('init', call)
    const { stdout, environment, signal } = call
    // What nobody is asked for has to be right already.
    loadConfig({ ...environment, ...placeholders(environment) })
    expectWritable(resolve(file))
    const asking: Asking = { call, asked: openQuestions(stdout, signal), answers: {} }
    const keys = `${back} goes back to the question before, ${empties} empties an optional answer.`
    stdout.tell(`Enter keeps the answer in brackets. ${keys}`)
    try {
      await answerAll(asking)
    } finally {
      asking.asked.close()
    }
    // Nobody is asked for it: without it, nobody could set up receivers of alerts in the console.
    const hasKey = ['ALERT_SECRETS_KEY', 'ALERT_SECRETS_KEY_FILE'].some((name) => environment[name]?.trim())
    if (!hasKey) asking.answers.ALERT_SECRETS_KEY = randomBytes(32).toString('hex')
    writeDotEnv(resolve(file), asking.answers)
    return await conclude(call, asking.answers)
  },
}

const file = '.env'
const back = '<'
const empties = '-'

async function conclude(call: Call, answers: Environment): Promise<ExitCode> {
  const { stdout, environment } = call
  const checks: Check[] = []
  for await (const check of everyCheck({ ...call, environment: { ...environment, ...answers } }))
    checks.push(check)
  const failed = checks.filter(({ isFine }) => !isFine)
  for (const check of failed) say(call, check)
  stdout.write(`${stdout.mark(failed.length === 0 ? 'good' : 'warning')} `)
  const passed = `${checks.length - failed.length} of ${checks.length} checks passed`
  stdout.say(`wrote ${file}, readable by you alone; ${passed}`)
  stdout.say(failed.length === 0 ? 'Next: npm start' : 'Next: mend that, then npx tidemark probe')
  return worst(checks.map(exitCodeOfCheck))
}

type Asking = {
  readonly call: Call
  readonly asked: Questions
  readonly answers: Record<string, string>
}

/** Goes through the questions, back and forth, until all are answered and nobody wants to change one any more. */
async function answerAll(asking: Asking): Promise<void> {
  const { call, answers } = asking
  let at = 0
  let isReview = false
  for (;;) {
    const settings = { ...call.environment, ...answers }
    const questions = questionsFor(settings)
    const question = questions[at]
    if (question === undefined) {
      const chosen = await review(asking, questions)
      if (chosen === null) return
      isReview = true
      at = chosen
      continue
    }
    const typed = await answer(question, asking)
    if (typed === back) {
      const before = questions.findLastIndex(({ file: held }, index) => index < at && held === null)
      if (before < 0) say(call, wrong(question.text, 'is the first question'))
      at = Math.max(0, before)
      continue
    }
    const tried = await tryOut(question, asking)
    for (const check of tried.checks) say(call, check)
    const { suggested } = tried
    if (suggested) answers[suggested.name] = suggested.value
    const again = tried.isAgreed === false || !areFine(tried.checks)
    const from = suggested?.name ?? question.triedFrom
    if (again) at = from === undefined ? at : questions.findIndex(({ name }) => name === from)
    else at = isReview && isLastOfItsKind(question) ? Number.POSITIVE_INFINITY : at + 1
  }
}

/** The next question is about something else. */
const isLastOfItsKind = ({ tries, whenEmpty }: Question) => tries !== undefined || whenEmpty !== undefined

async function tryOut(question: Question, { call, asked, answers }: Asking): Promise<Tried> {
  const settings = { ...call.environment, ...answers }
  const isLeftOut = question.whenEmpty !== undefined && answers[question.name] === ''
  if (!question.tries || isLeftOut) return { checks: [] }
  const tried = await question.tries(settings, call)
  if (tried.doubt === undefined) return tried
  for (const check of tried.checks) say(call, check)
  const yes = await asked.ask({ text: `${tried.doubt} Is that right? (yes, or Enter to change the answers)` })
  return { ...tried, checks: [], isAgreed: /^y(?:es)?$/i.test(yes) }
}

/** Asks until the answer has the right form. */
async function answer(question: Question, { call, asked, answers }: Asking): Promise<string> {
  const { name, text, isSecret, whenEmpty, schema, file: held } = question
  if (held !== null) {
    say(call, good(text, `is in ${held}`))
    return ''
  }
  for (;;) {
    const known = answers[name] ?? call.environment[name]?.trim() ?? ''
    const hint = whenEmpty === undefined ? '' : ` (${known === '' ? 'empty' : empties}: ${whenEmpty})`
    const typed = await asked.ask({ text: `${text}${hint}`, isSecret, known })
    if (typed === back) return back
    const value = tokenMade(name, typed) ?? (typed === empties && whenEmpty !== undefined ? '' : typed)
    if (value !== typed && value !== '') say(call, good(text, `made; it will be in ${file} as ${name}`))
    if (isSecret && value !== '') keepSecret(value)
    if (value === '' && whenEmpty !== undefined) {
      answers[name] = ''
      return ''
    }
    const parsed = schema.safeParse(value === '' ? undefined : value)
    if (!isSecret || parsed.success) answers[name] = value
    if (parsed.success) return value
    const issue = parsed.error.issues[0]?.message ?? 'is not usable'
    say(call, wrong(text, value === '' ? 'is needed' : issue))
  }
}

/** Null: all is as it should be. */
async function review(
  { call, asked, answers }: Asking,
  questions: readonly Question[],
): Promise<number | null> {
  const { stdout } = call
  for (const [index, { name, isSecret, whenEmpty, file: held }] of questions.entries()) {
    const value = answers[name] ?? ''
    const shown =
      held !== null ? `in ${held}` : value === '' ? `(${whenEmpty})` : isSecret ? '••••••••' : value
    stdout.say(`  ${String(index + 1).padStart(2)}  ${name.padEnd(nameWidth)}  ${shown}`)
  }
  for (;;) {
    const typed = await asked.ask({ text: `Write ${file}? (Enter writes it; a number changes that answer)` })
    if (typed === '') return null
    if (typed === back) return questions.length - 1
    const chosen = Number(typed)
    if (/^\d+$/.test(typed) && chosen >= 1 && chosen <= questions.length) return chosen - 1
    say(call, wrong(typed, `is no number from 1 to ${questions.length}`))
  }
}

const nameWidth = 19

function say({ stdout }: Pick<Call, 'stdout'>, check: Check): void {
  stdout.write(`  ${stdout.mark(markOfCheck(check))} `)
  stdout.tell(`${check.name}: ${check.says}`)
}
