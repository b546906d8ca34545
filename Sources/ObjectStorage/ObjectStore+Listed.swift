extension ObjectStore {
    /// What a listing shows of the key; nil where it shows no such object. It shows a link of the store's own kind itself, where
    /// a HEAD describes the object that the link leads to.
    ///
    /// The first key with that prefix is the key itself. Some pages are empty and have a next one.
    package func listed(_ key: ObjectKey) async throws(ObjectStoreError) -> ListedObject? {
        var request = ListRequest(prefix: key.bytes, limit: 1)
        var progress = ListingProgress()
        while true {
            let page = try await list(request)
            try progress.take(page)
            if let first = page.objects.first { return first.key == key ? first : nil }
            guard let next = page.next else { return nil }
            request.cursor = next
        }
    }
}
