package import Basics
package import ObjectStorage
import Synchronization

/// Credentials that end and are got anew from where they came: a token service, an instance's metadata service, a file.
///
/// Holds the newest ones and who waits for the next. Renewal begins `margin` before the end, by the request that notices
/// it first, while the others go on with what is still good; only when nothing good is left do they wait. Locked by its
/// own mutex, a leaf; the source is asked outside it, by one caller at a time. Lives as long as its store.
package final class RenewingCredentials: CredentialsProvider {
    package typealias Source = @Sendable () async throws(ObjectStoreError) -> Credentials?

    private struct State {
        var credentials: Credentials?
        var isKnown = false
        var isRenewing = false
        /// No renewal of credentials that still work before this; of the time source's `uptime`.
        var earliest = Duration.zero
        var replacement: Replaced?
    }

    /// The last reading of the source that a refusal asked for.
    private struct Replaced {
        /// Its end; of the time source's `uptime`.
        var at: Duration
        var length: Duration
        /// Whether there were others.
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
    /// Who waits does so for the end of a renewal.
    private let state = Monitor<State, Void, Void>(State())
    private static let pause = Duration.seconds(10)
    private static let silence = ObjectStoreError(
        .unreachable, .checkAccess, code: "NoCredentials",
        message: "the source of the credentials has none now")

    /// `margin` is how long before their end credentials are no longer handed out without trying for new ones.
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
        // Another request that was refused reads the source already, or has done so.
        if state.isRenewing { return .wait }
        if state.isKnown, state.credentials != used { return .answer(.success(true)) }
        if let last = state.replacement {
            let age = time.uptime() - last.at
            // A request that was sent before the last answer gets the same one.
            if age < .seconds(1), (try? last.result.get()) != true { return .answer(last.result) }
            // Not for each object that these credentials may not read, and programs less often than files.
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

    /// Reads the source, for this caller and those that wait; `used` are credentials that the store refused.
    private func renew(
        or fallback: Credentials?, replacing used: Credentials? = nil
    ) async throws(ObjectStoreError) -> Credentials? {
        let began = time.uptime()
        let result: Result<Credentials?, ObjectStoreError>
        do throws(ObjectStoreError) {
            let credentials = try await source()
            try credentials?.requireUsable()
            // A service that is not there is silent as well: whoever had credentials does not become anonymous by that.
            if credentials == nil, state.withLock({ $0.credentials != nil }) { throw Self.silence }
            result = .success(credentials)
        } catch { result = .failure(error) }
        state.change { state, queue in
            if case .success(let credentials) = result { (state.credentials, state.isKnown) = (credentials, true) }
            // A source that fails, or that has nothing newer, is not asked at every request.
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

    /// Returns when the renewal under way has ended, well or not: whoever still has nothing then tries for itself.
    private func awaitRenewal() async {
        await state.waitRegardless { state, _ in state.isRenewing ? .wait(()) : .answer(()) }
    }
}

extension Credentials {
    fileprivate func hasEnded(at moment: Timestamp) -> Bool { expires.map { $0 <= moment } ?? false }
}
