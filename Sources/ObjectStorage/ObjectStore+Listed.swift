extension ObjectStore {
    /// The key as a listing shows it; nil where it shows no such object. A listing shows a link of the store's own kind itself,
    /// where a HEAD describes the link's target.
    ///
    /// The first key with the prefix `key` is the key itself. Some pages are empty and have a next one.
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
