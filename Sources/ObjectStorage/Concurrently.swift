/// Runs `body` for every item, `width` of them at a time, and returns the answers in the items' order. After a failure no further
/// item is begun; the first failure is thrown once every running one has ended.
///
/// A tuple is made when all its elements are there: of one that has an `await` in it, the optimizer of Swift 6.3 returns elements
/// from before the `await` as something else.
package func concurrently<Item: Sendable, Answer: Sendable>(
    _ items: [Item], width: Int,
    _ body: @escaping @Sendable (Item) async throws(ObjectStoreError) -> Answer
) async throws(ObjectStoreError) -> [Answer] {
    var answers = [Answer?](repeating: nil, count: items.count)
    var failure: ObjectStoreError?
    await withTaskGroup(of: (Int, Result<Answer, ObjectStoreError>).self) { group in
        var next = 0
        func begin() {
            guard next < items.count else { return }
            let (index, item) = (next, items[next])
            next += 1
            group.addTask {
                let result: Result<Answer, ObjectStoreError>
                do throws(ObjectStoreError) { result = .success(try await body(item)) } catch {
                    result = .failure(error)
                }
                return (index, result)
            }
        }
        for _ in 0..<max(width, 1) { begin() }
        for await (index, result) in group {
            switch result {
            case .success(let answer): answers[index] = answer
            case .failure(let error): failure = failure ?? error
            }
            if failure == nil { begin() }
        }
    }
    if let failure { throw failure }
    return answers.compactMap(\.self)
}
