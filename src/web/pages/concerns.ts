// What needs a person, at the top of every page; nothing when nothing does. What is announced is how much there is, so that a screen
// reader is not told every changed word.

import { type Concern, isNews } from '../../concerns/concern.ts'
import { type Html, html } from '../html.ts'
import { foreign, stamp } from '../words.ts'

export const concernBanner = (concerns: readonly Concern[], isOpen: boolean): Html =>
  html`<details class="concerns"${isOpen && html` open`}>
<summary><span role="status" data-live="concern-count">${concernCount(concerns)}</span></summary>
<div data-live="concerns">${concernList(concerns)}</div>
</details>`

/** The pieces of it that follow what happens, by their keys. */
export const concernCells = (concerns: readonly Concern[]) =>
  [
    ['concern-count', concernCount(concerns)],
    ['concerns', concernList(concerns)],
  ] as const

const concernCount = (concerns: readonly Concern[]): Html | null => {
  const news = concerns.filter(({ kind }) => isNews(kind)).length
  const needs = concerns.length - news
  const parts = [
    needs > 0 && (needs === 1 ? 'One thing needs a person' : `${needs} things need a person`),
    news > 0 && (news === 1 ? 'one change to know of' : `${news} changes to know of`),
  ]
  const text = parts.filter(Boolean).join(', ')
  return text === '' ? null : html`${text}`
}

const concernList = (concerns: readonly Concern[]): Html | null =>
  concerns.length === 0 ? null : html`<ul>${concerns.map(line)}</ul>`

const line = ({ what, whatToDo, since }: Concern): Html =>
  html`<li><p>${foreign(what, 500)}${since && html` <span class="quiet">since ${stamp(since)}</span>`}</p>
<p class="todo">${withCode(whatToDo)}</p></li>`

/** What stands between backticks is a command. */
const withCode = (text: string): readonly Html[] =>
  text.split('`').map((part, index) => (index % 2 === 0 ? html`${part}` : html`<code>${part}</code>`))
