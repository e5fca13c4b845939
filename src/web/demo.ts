// `/demo`: buttons that break things at a simulated upstream, for people who want to see what Tidemark does about it. The page exists only
// in the demo, which says what there is to break and what came of it. Its address carries a key that signs in once.

import { randomInt } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { actionForm } from './action-forms.ts'
import { forRole, hasOwnForm } from './actions.ts'
import type { Assets } from './assets.ts'
import { clock, foreign, type Html, html, state, type Tone } from './html.ts'
import type { NoteSignIn } from './noting.ts'
import { heading, type Layout, sendPage } from './pages/layout.ts'
import type { Console } from './readers.ts'
import { fieldsOf, queryOf, type Routes, withForms } from './server.ts'
import { isSecret, type Viewer } from './sessions.ts'

export type DemoStep = { readonly text: string; readonly at: Date | null }
export type DemoButton = { readonly name: string; readonly words: string; readonly isMain?: boolean }
export type DemoCard = {
  readonly title: string
  readonly lead: string
  readonly tone: Tone
  readonly words: string
  readonly steps: readonly DemoStep[]
  readonly links: readonly (readonly [address: string, words: string])[]
  readonly buttons: readonly DemoButton[]
  /** To be pasted into a terminal. */
  readonly command?: string
  /** Three of these stand side by side. */
  readonly isThird?: boolean
}
export type DemoShown = { readonly lead: string; readonly cards: readonly DemoCard[] }
export type Demo = {
  /** Part of the address; null once it was used. */
  readonly key: OneTimeKey
  show(): Promise<DemoShown>
  /** Presses a button, and says in one line what came of it. Rejects with a UsageError when there is no such button now. */
  press(name: string): Promise<string>
}

export type OneTimeKey = { readonly text: string; take(given: string): boolean }

const letters = 'ABCDEFGHJKLMNPQRSTUVWXYZ23456789'

/** Twelve characters that nobody mistakes for others. */
export function newOneTimeKey(): OneTimeKey {
  const group = () => Array.from({ length: 4 }, () => letters[randomInt(letters.length)]).join('')
  const text = [group(), group(), group()].join('-')
  const isIt = isSecret(text)
  let isLeft = true
  return {
    text,
    take(given) {
      if (!isLeft || !isIt(given)) return false
      isLeft = false
      return true
    },
  }
}

type Options = Pick<Console, 'authentication' | 'assets' | 'log'> & {
  /** Null outside of the demo, and until it is ready. */
  readonly demo: () => Demo | null
  readonly note: NoteSignIn
}

export const demoRoutes =
  ({ demo, authentication, assets, note, log }: Options): Routes =>
  (server) => {
    withForms(server, (scope) => {
      scope.get('/demo', async (request, reply) => {
        const there = demo()
        if (!there) return reply.code(404).send({ error: 'not found' })
        const given = keyIn(request)
        if (given !== null && there.key.take(given)) {
          const person = { role: 'admin', who: 'demo' } as const
          await note(request, { action: 'signIn', person, how: 'Signed in with the key of the demo.' })
          await authentication.signIn(request, reply, person)
          return reply.redirect('/demo', 303)
        }
        const viewer = authentication.viewerOf(request)
        return sendPage(reply, pageOf(await there.show(), viewer, assets, given !== null))
      })
      scope.post<{ Params: { button: string } }>(
        '/demo/:button',
        forRole(authentication, 'operator'),
        async (request, reply) => {
          const there = demo()
          const session = authentication.sessionOf(request)
          if (!there) return reply.code(404).send({ error: 'not found' })
          const isOwn = hasOwnForm(authentication, request, fieldsOf(request).csrf ?? '')
          const outcome = isOwn
            ? await pressed(there, request.params.button, log)
            : {
                isGood: false,
                text: 'That form was out of date, and nothing was done. This page has a new one.',
              }
          if (!session) return reply.code(outcome.isGood ? 200 : 400).send(outcome)
          authentication.leaveMessage(session, outcome)
          return reply.redirect('/demo', 303)
        },
      )
    })
  }

const keyIn = (request: FastifyRequest): string | null => queryOf(request).get('key')

async function pressed(demo: Demo, button: string, log: Logger) {
  try {
    return { isGood: true, text: await demo.press(button) }
  } catch (error) {
    if (!(error instanceof UsageError)) log.warn({ err: error, button }, 'the demo could not do that')
    return { isGood: false, text: messageOf(error) }
  }
}

const reloadSeconds = 5

function pageOf(shown: DemoShown, viewer: Viewer, assets: Pick<Assets, 'urlOf'>, hasKey: boolean): Layout {
  const isWaiting = shown.cards.some(({ tone }) => tone === 'busy')
  return {
    title: 'Demo',
    path: '/demo',
    viewer,
    assets,
    problems: null,
    isDemo: true,
    asOf: new Date(),
    // While something goes on, the page loads itself again. It has no fields, so nobody loses what they were typing.
    ...(isWaiting && { reloadSeconds }),
    heading: heading({
      title: 'Break it. Watch it notice.',
      lead: shown.lead,
      bar: html`<a class="btn" href="/">The console</a>`,
    }),
    body: html`${
      hasKey &&
      !viewer.canAct &&
      html`<p class="note warn">The key in this address has been used already, and works once. Start the demo again for a new one.</p>`
    }<div class="cols">${shown.cards.map((card, index) => cardOf(card, index, viewer))}</div>`,
  }
}

function cardOf(card: DemoCard, index: number, viewer: Viewer): Html {
  const now = new Date()
  const id = `card-${index}`
  return html`<section class="card ${card.isThird ? 'c4' : 'c6'}" aria-labelledby="${id}"><div class="bar spread"><h2 id="${id}">${card.title}</h2>${state(card.tone, card.words)}</div>
<p>${card.lead}</p>
${card.command && html`<pre class="term" tabindex="0">${card.command}</pre>`}
${
  card.steps.length > 0 &&
  html`<ol class="steps">${card.steps.map(({ text, at }) => html`<li>${foreign(text, 300)}${at && html` <span class="quiet small">${clock(at, now)}</span>`}</li>`)}</ol>`
}
<div class="bar">${card.buttons.map(
    ({ name, words, isMain }) =>
      actionForm(viewer, `/demo/${name}`, html`<button${isMain && html` class="go"`}>${words}</button>`) ??
      html`<button disabled>${words}</button>`,
  )}${card.links.map(([address, words]) => html`<a class="btn" href="${address}">${words}</a>`)}</div></section>`
}
