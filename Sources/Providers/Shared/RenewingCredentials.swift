package import Basics
package import ObjectStorage
import Synchronization

/// Credentials that expire and are renewed from their source: a token service, an instance's metadata service, a file.
///
/// Holds the newest credentials and the callers that wait for the next. A renewal begins `margin` before they expire, by the
/// first request that notices; the others use the old ones as long as they are valid, and wait only after that. Locks: its own
/// mutex, a leaf; the source is read outside it, by one caller at a time. Lives as long as its store.
package final class RenewingCredentials: CredentialsProvider {
    package typealias Source = @Sendable () async throws(ObjectStoreError) -> Credentials?

    private struct State {
        var credentials: Credentials?
        var isKnown = false
        var isRenewing = false
        /// No renewal of valid credentials before this; of the time source's `uptime`.
        var earliest = Duration.zero
        var replacement: Replaced?
    }

    /// The last reading of the source because of a refusal.
    private struct Replaced {
        /// When it ended; of the time source's `uptime`.
        var at: Duration
        var length: Duration
        /// Whether the source had other credentials.
        var result: Result<Bool, ObjectStoreError>
    }

    private enum Step {
        case use(Credentials?)
        case renew(fallback: Credentials?)
        case wait
    }

    private let source: Source
    private let margin: Duration
    private let time: any TimeSource
    /// Callers wait for the end of a renewal.
    private let state = Monitor<State, Void, Void>(State())
    private static let pause = Duration.seconds(10)
    private static let silence = ObjectStoreError(
        .unreachable, .checkAccess, code: "NoCredentials",
        message: "the source of the credentials has none now")

    /// `margin` is how long before their expiry credentials are first renewed.
    package init(margin: Duration = .seconds(300), time: any TimeSource, source: @escaping Source) {
        (self.margin, self.time, self.source) = (margin, time, source)
    }

    package func current() async throws(ObjectStoreError) -> Credentials? {
        while true {
            switch state.withLock({ next(&$0) }) {
            case .use(let credentials): return credentials
            case .renew(let fallback): return try await renew(or: fallback)
            case .wait: await awaitRenewal()
            }
        }
    }

    package func replace(
        _ used: Credentials?, after refusal: CredentialsRefusal
    ) async throws(ObjectStoreError) -> Bool {
        guard let used else { return false }
        while true {
            switch state.withLock({ replacement(of: used, after: refusal, &$0) }) {
            case .answer(let result): return try result.get()
            case .renew: return try await renew(or: nil, replacing: used) != used
            case .wait: await awaitRenewal()
            }
        }
    }

    private enum Replacement {
        case answer(Result<Bool, ObjectStoreError>)
        case renew
        case wait
    }

    private func replacement(
        of used: Credentials, after refusal: CredentialsRefusal, _ state: inout State
    ) -> Replacement {
        // Another refused request reads the source already, or has read it.
        if state.isRenewing { return .wait }
        if state.isKnown, state.credentials != used { return .answer(.success(true)) }
        if let last = state.replacement {
            let age = time.uptime() - last.at
            // A request that was sent before the last answer gets the same result.
            if age < .seconds(1), (try? last.result.get()) != true { return .answer(last.result) }
            // The source is not read for each object that these credentials may not read, and a slow program less often than a
            // file.
            if refusal == .unexplained, age < max(.seconds(1), last.length * 20) { return .answer(.success(false)) }
        }
        state.isRenewing = true
        return .renew
    }

    private func next(_ state: inout State) -> Step {
        let now = time.now()
        let works = state.isKnown && !(state.credentials?.hasEnded(at: now) ?? false)
        let isFresh = works && !(state.credentials?.hasEnded(at: now + margin) ?? false)
        if isFresh || works && (state.isRenewing || time.uptime() < state.earliest) { return .use(state.credentials) }
        if state.isRenewing { return .wait }
        state.isRenewing = true
        return .renew(fallback: works ? state.credentials : nil)
    }

    /// Reads the source, for this caller and those that wait; `used` are credentials that the store has refused.
    private func renew(
        or fallback: Credentials?, replacing used: Credentials? = nil
    ) async throws(ObjectStoreError) -> Credentials? {
        let began = time.uptime()
        let result: Result<Credentials?, ObjectStoreError>
        do throws(ObjectStoreError) {
            let credentials = try await source()
            try credentials?.requireUsable()
            // A service that is unreachable has no credentials either: requests that had some must not become anonymous by that.
            if credentials == nil, state.withLock({ $0.credentials != nil }) { throw Self.silence }
            result = .success(credentials)
        } catch { result = .failure(error) }
        state.change { state, queue in
            if case .success(let credentials) = result { (state.credentials, state.isKnown) = (credentials, true) }
            // A source that fails, or has nothing newer, is not read at every request.
            state.earliest = time.uptime() + Self.pause
            if let used {
                let now = time.uptime()
                state.replacement = Replaced(at: now, length: now - began, result: result.map { $0 != used })
            }
            state.isRenewing = false
            queue.answer { () }
        }
        if let fallback, case .failure(let error) = result, error.kind != .cancelled { return fallback }
        return try result.get()
    }

    /// Returns when the renewal in progress has ended, with or without success: a caller without credentials then renews itself.
    private func awaitRenewal() async {
        await state.waitRegardless { state, _ in state.isRenewing ? .wait(()) : .answer(()) }
    }
}

extension Credentials {
    fileprivate func hasEnded(at moment: Timestamp) -> Bool { expires.map { $0 <= moment } ?? false }
}
