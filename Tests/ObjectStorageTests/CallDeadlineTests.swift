import Basics
import ObjectStorage
import Synchronization
import TestSupport
import Testing

/// All requests of one call share the time that it may wait for a store that does not answer.
@Suite(.timeLimit(.minutes(5))) struct CallDeadlineTests {
    private static let large = [UInt8](repeating: 1, count: 8192)

    /// A store that is silent for a deadline at each request, or for less if a request is given less.
    private static func silent(_ time: ManualTime) -> any ObjectStore {
        let memory = MemoryStore()
        memory.fault = { operation, key in
            let deadline = RetryPolicy().deadline
            time.advance(by: min(deadline, RequestTimeout.current ?? deadline))
            return ObjectStoreError(.timedOut, operation, key: key, message: "\(operation) without an answer")
        }
        return InterceptedStore(memory, Retrying(RetryPolicy(), time: time))
    }

    /// A clock that goes on whenever somebody waits.
    private static func running(_ time: ManualTime) -> Task<Void, Never> {
        Task {
            while !Task.isCancelled {
                if time.sleepers > 0 { time.advance(by: .milliseconds(100)) }
                await Task.yield()
            }
        }
    }

    @Test(.rule("deadline"), arguments: [false, true])
    func requestsOfACallShareItsTime(hasTransfer: Bool) async throws {
        let time = ManualTime()
        let store = Self.silent(time)
        let clock = Self.running(time)
        defer { clock.cancel() }
        let began = time.uptime()
        let last = await CallDeadline.run { () async -> ObjectStoreError? in
            if hasTransfer { _ = try? await store.put(PutRequest("k"), body: MemorySource(Self.large)) }
            var last: ObjectStoreError?
            for _ in 0..<5 {
                do throws(ObjectStoreError) { _ = try await store.head("k", condition: nil) } catch { last = error }
            }
            return last
        }
        let whole = RetryPolicy().deadline * 5 / (hasTransfer ? 2 : 4)
        #expect(time.uptime() - began <= whole + .seconds(1), "\(time.uptime() - began)")
        // What used it up is what it fails with.
        #expect(last?.kind == .timedOut)
    }

    /// The first try fails just before the end of the time, and the next one gets no answer.
    @Test(.rule("deadline"), arguments: [false, true]) func aTryAtTheEndDoesNotTakeTheTimeAgain(isTransfer: Bool) async
    {
        let time = ManualTime()
        let memory = MemoryStore()
        let deadline = RetryPolicy().deadline
        let whole = isTransfer ? deadline * 2 : deadline * 5 / 4
        let tries = Atomic(0)
        memory.fault = { operation, key in
            let number = tries.add(1, ordering: .relaxed).newValue
            let isFirst = number <= (isTransfer ? 6 : 1)
            let silence = min(deadline, RequestTimeout.current ?? deadline)
            time.advance(by: isFirst ? (whole - .seconds(2)) / (isTransfer ? 6 : 1) : silence)
            return ObjectStoreError(isFirst ? .interrupted : .timedOut, operation, key: key, message: "no answer")
        }
        let store = InterceptedStore(memory, Retrying(RetryPolicy(), time: time))
        let clock = Self.running(time)
        defer { clock.cancel() }
        let began = time.uptime()
        await CallDeadline.run {
            if isTransfer {
                _ = try? await store.put(PutRequest("k"), body: MemorySource(Self.large))
            } else {
                _ = try? await store.head("k", condition: nil)
            }
        }
        #expect(time.uptime() - began <= whole + deadline / 4, "\(time.uptime() - began)")
    }

    @Test(.rule("deadline")) func aTrialIsSentOnceAndLeavesTheCallItsTime() async throws {
        let time = ManualTime()
        let memory = MemoryStore()
        memory.setObject("k", [1])
        memory.fault = { operation, key in
            operation == .delete ? ObjectStoreError(.serverFault, .delete, key: key, message: "no deletion now") : nil
        }
        let store = InterceptedStore(memory, Retrying(RetryPolicy(), time: time))
        await CallDeadline.run {
            await Retrying.$isOff.withValue(true) { _ = try? await store.delete("k", ifMatch: nil) }
            #expect(memory.count(.delete) == 1)
            _ = try? await store.head("k", condition: nil)
        }
        #expect(memory.count(.head) == 1)
        #expect(time.uptime() == ManualTime().uptime())
    }

    @Test(.rule("deadline")) func anAnswerMakesTheTimeWholeAgain() async throws {
        let time = ManualTime()
        let memory = MemoryStore()
        memory.setObject("k", [1])
        let store = InterceptedStore(memory, Retrying(RetryPolicy(), time: time))
        let clock = Self.running(time)
        defer { clock.cancel() }
        let answers = await CallDeadline.run { () async -> Int in
            var answers = 0
            for _ in 0..<6 {
                // Away for most of the deadline, and back.
                let back = time.uptime() + RetryPolicy().deadline * 9 / 10
                memory.fault = { operation, key in
                    time.uptime() < back ? ObjectStoreError(.unreachable, operation, key: key, message: "away") : nil
                }
                if (try? await store.head("k", condition: nil)) != nil { answers += 1 }
            }
            return answers
        }
        #expect(answers == 6)
    }

    /// A call may leave work behind that goes on without it.
    @Test func whatACallLeavesRunningHasTheTimeOfItsOwnRequests() async throws {
        let time = ManualTime()
        let memory = MemoryStore()
        memory.setObject("k", [1])
        memory.fault = { operation, key in
            time.advance(by: .seconds(30))
            return ObjectStoreError(.timedOut, operation, key: key, message: "no answer")
        }
        let store = InterceptedStore(memory, Retrying(RetryPolicy(), time: time))
        let gate = Gate()
        let left = await CallDeadline.run { () async -> Task<Bool, Never> in
            for _ in 0..<3 { _ = try? await store.head("k", condition: nil) }
            return Task {
                await gate.pass()
                return (try? await store.head("k", condition: nil)) != nil
            }
        }
        memory.fault = nil
        gate.open()
        #expect(await left.value)
    }
}
