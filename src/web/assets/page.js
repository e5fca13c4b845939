// The script of the pages: it shows what the worker sends, says whether it is in touch, and knows some keys. Pages are complete without it.

const connection = document.querySelector('[data-connection]')
let source = null

function say(state) {
  if (connection.textContent === state) return
  connection.textContent = state
  connection.dataset.connection = state
  connection.classList.toggle('off', state !== 'live')
}

function show({ cells, isWhole }) {
  if (isWhole)
    for (const place of document.querySelectorAll('[data-live]'))
      if (!(place.dataset.live in cells)) place.innerHTML = ''
  for (const [key, markup] of Object.entries(cells))
    for (const place of document.querySelectorAll(`[data-live="${CSS.escape(key)}"]`))
      if (!place.contains(document.activeElement)) place.innerHTML = markup
  say('live')
}

function listen() {
  source?.close()
  // Nothing on this page follows what happens.
  if (!document.querySelector('[data-live]') || document.visibilityState !== 'visible') return
  source = new EventSource('/events')
  source.addEventListener('update', ({ data }) => show(JSON.parse(data)))
  source.addEventListener('away', () => say('waiting for the database'))
  source.addEventListener('error', () => {
    say('reconnecting')
    // Refused: the browser does not come back by itself.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5_000)
  })
}

// A browser keeps few connections to one place; pages that nobody sees leave them to others.
document.addEventListener('visibilitychange', listen)
listen()

// Keys: off in fields, and off altogether for who wants that.
const keys = document.querySelector('#keys')
const useKeys = document.querySelector('[data-use-keys]')
const openKeys = document.querySelector('[data-open-keys]')
let isGoing = false

function goTo(letter) {
  for (const link of document.querySelectorAll('.nav a'))
    if (link.textContent.trim().toLowerCase().startsWith(letter)) return link.click()
}

function press(event) {
  const { key, target, ctrlKey, metaKey, altKey } = event
  if (!useKeys.checked || ctrlKey || metaKey || altKey || keys.open) return
  if (target.closest('input, select, textarea, [contenteditable]')) return
  if (isGoing) goTo(key.toLowerCase())
  else if (key === '/') document.querySelector('#q').focus()
  else if (key === '?') keys.showModal()
  isGoing = key === 'g' && !isGoing
  if (key === '/' || key === '?') event.preventDefault()
}

if (keys && useKeys && openKeys) {
  try {
    useKeys.checked = localStorage.getItem('keys') !== 'off'
    useKeys.addEventListener('change', () => localStorage.setItem('keys', useKeys.checked ? 'on' : 'off'))
  } catch {
    // A browser that keeps nothing.
  }
  openKeys.hidden = false
  openKeys.addEventListener('click', () => keys.showModal())
  document.addEventListener('keydown', press)
}
